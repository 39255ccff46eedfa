//! Propagation delays that vary. One file holds each process; adding one costs that file and a line in `processes!`.

use ccarena_cc::reader::{At, Result};
use ccarena_cc::types::Dur;
use serde_json::{Map, Value};

use crate::stepped::Stepped;

/// Longest propagation delay.
pub const MAX_DELAY_MS: f64 = 100_000.0;

/// Process that gives the delay of each packet.
pub trait Process: Sized {
    /// Name of its field in a scenario.
    const NAME: &'static str;

    /// Reads it.
    ///
    /// # Errors
    /// If it is something else.
    fn read(at: &At<'_>) -> Result<Self>;

    /// Writes it.
    fn write(&self) -> Value;

    /// Returns the delay by the time at which a packet leaves.
    fn stepped(&self) -> Stepped<Dur>;
}

/// `file: Type` for each process, by name.
macro_rules! processes {
    ($($file:ident: $process:ident),* $(,)?) => {
        $(mod $file; pub use $file::$process;)*

        /// A delay process of any kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyProcess {
            $(#[doc = concat!("[`", stringify!($process), "`].")] $process($process),)*
        }

        impl AnyProcess {
            /// Names of all processes.
            pub const NAMES: &[&str] = &[$($process::NAME),*];

            /// Reads the process called `name`; none if no process is.
            fn read(name: &str, at: &At<'_>) -> Option<Result<Self>> {
                match name {
                    $($process::NAME => Some($process::read(at).map(Self::$process)),)*
                    _ => None,
                }
            }

            fn write(&self) -> (&'static str, Value) {
                match self {
                    $(Self::$process(process) => ($process::NAME, process.write()),)*
                }
            }

            /// Returns the delay by the time at which a packet leaves.
            #[must_use]
            pub fn stepped(&self) -> Stepped<Dur> {
                match self {
                    $(Self::$process(process) => process.stepped(),)*
                }
            }
        }
    };
}

processes! {
    steps: Steps,
}

/// A delay that varies.
#[derive(Clone, Debug, PartialEq)]
pub struct DelaySpec {
    /// Process of the delay.
    pub process: AnyProcess,
    /// Packets that leave later do not arrive earlier when the delay falls, as on a radio bearer.
    pub keep_order: bool,
}

impl DelaySpec {
    /// Reads an object with one process and perhaps `keep_order`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(at: &At<'_>) -> Result<Self> {
        let o = at.object(&[AnyProcess::NAMES, &["keep_order"]].concat())?;
        let given = AnyProcess::NAMES.iter().filter_map(|&name| Some((name, o.get(name)?)));
        let mut processes = given.filter_map(|(name, at)| AnyProcess::read(name, &at));
        let (Some(process), None) = (processes.next(), processes.next()) else {
            return at.fail(format!("exactly one of {}", AnyProcess::NAMES.join(", ")));
        };
        Ok(Self { process: process?, keep_order: o.or("keep_order", true, At::boolean)? })
    }

    /// Writes it.
    #[must_use]
    pub fn write(&self) -> Value {
        let (name, process) = self.process.write();
        let mut fields = Map::new();
        fields.insert(name.into(), process);
        fields.insert("keep_order".into(), self.keep_order.into());
        Value::Object(fields)
    }

    /// Returns the least delay.
    #[must_use]
    pub fn least(&self) -> Dur {
        self.process.stepped().values().min().unwrap_or(Dur::ZERO)
    }
}
