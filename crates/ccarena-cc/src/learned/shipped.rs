//! The learned schemes that come with the program.

use std::sync::LazyLock;

use super::Document;
use crate::param::Param;
use crate::scheme::Scheme;

/// A document of `documents/`, by name, and as a scheme.
macro_rules! shipped {
    ($($constant:ident $name:literal;)*) => {
        $(
            static $constant: LazyLock<Document> =
                LazyLock::new(|| read($name, include_str!(concat!("documents/", $name, ".json"))));
        )*

        /// The shipped documents, by name.
        pub fn documents() -> impl Iterator<Item = &'static Document> {
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
    ORCA "orca";
    PILOT "pilot";
}

/// The shipped document called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Document> {
    documents().find(|d| d.spec().name == name)
}

#[expect(clippy::panic, reason = "part of the program: a test reads every one")]
fn read(name: &str, text: &str) -> Document {
    match Document::parse(text) {
        Ok(document) => document,
        Err(e) => panic!("documents/{name}.json: {e}"),
    }
}

#[expect(clippy::panic, reason = "the registry has checked the parameters")]
fn controller(document: &Document, config: &crate::Config) -> Box<dyn crate::Controller> {
    match document.controller(config) {
        Ok(controller) => controller,
        Err(e) => panic!("{e}"),
    }
}

/// A shipped document lives as long as the program, and so does what the registry says of it.
fn scheme(document: &'static Document, build: fn(&crate::Config) -> Box<dyn crate::Controller>) -> Scheme {
    let params: Vec<Param> = document
        .spec()
        .params
        .iter()
        .map(|p| Param { name: &p.name, default: p.default, min: p.min, max: p.max, doc: &p.doc })
        .collect();
    Scheme {
        name: &document.spec().name,
        summary: &document.summary,
        params: params.leak(),
        learned: true,
        weight_above: document.observes(&["weight"]).then_some(0.0),
        requirement: document.observes(&["required_min_mbps", "required_max_mbps"]),
        build,
    }
}
