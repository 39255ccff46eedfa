//! A parameter of a scheme, a clock, an actuator, a base or a signal.

/// A parameter with its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name in a scenario.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Smallest allowed value.
    pub min: f64,
    /// Largest allowed value.
    pub max: f64,
    /// Description, with unit and source.
    pub doc: &'static str,
}
