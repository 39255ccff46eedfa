//! The learned schemes that come with the program.

use std::sync::LazyLock;

use super::Spec;
use crate::param::Param;
use crate::scheme::Scheme;

/// The spec in a scheme's folder of the Python package, by name, and as a scheme.
macro_rules! shipped {
    ($($constant:ident $name:literal;)*) => {
        $(
            static $constant: LazyLock<Spec> =
                LazyLock::new(|| read($name, include_str!(concat!("../../../../ccarena/", $name, "/spec.json"))));
        )*

        /// The shipped specs, by name.
        pub fn specs() -> impl Iterator<Item = &'static Spec> {
            [$(&*$constant),*].into_iter()
        }

        /// The same as schemes of the registry.
        #[must_use]
        pub fn schemes() -> Vec<Scheme> {
            vec![$(scheme(&$constant, |config| controller(&$constant, config))),*]
        }
    };
}

shipped! {
    ACCT "acct";
    AURORA "aurora";
    HYVAR "hyvar";
    L4S "l4s";
    ORCA "orca";
}

/// The shipped spec called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    specs().find(|d| d.interface().name == name)
}

#[expect(clippy::panic, reason = "part of the program: a test reads every one")]
fn read(name: &str, text: &str) -> Spec {
    match Spec::parse(text) {
        Ok(spec) => spec,
        Err(e) => panic!("ccarena/{name}/spec.json: {e}"),
    }
}

#[expect(clippy::panic, reason = "the registry has checked the parameters")]
fn controller(spec: &Spec, config: &crate::Config) -> Box<dyn crate::Controller> {
    match spec.controller(config) {
        Ok(controller) => controller,
        Err(e) => panic!("{e}"),
    }
}

/// A shipped spec lives as long as the program, and so does what the registry says of it.
fn scheme(spec: &'static Spec, build: fn(&crate::Config) -> Box<dyn crate::Controller>) -> Scheme {
    let params: Vec<Param> = spec
        .interface()
        .params
        .iter()
        .map(|p| Param { name: &p.name, default: p.default, min: p.min, max: p.max, doc: &p.doc })
        .collect();
    Scheme {
        name: &spec.interface().name,
        summary: &spec.summary,
        params: params.leak(),
        learned: true,
        rules: false,
        weight_above: spec.weight_above(),
        requirement: spec.takes_requirement(),
        alias_of: None,
        feedback: spec.needed_feedback(),
        build,
    }
}
