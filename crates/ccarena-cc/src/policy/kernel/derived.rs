//! Derived signals in an image.

use super::names::{DERIVATIONS, SIGNALS};
use super::{DERIVED, ImageError, Writer, number_of};
use crate::learned::derived::{Derivation, Derived, Flat, Over, Rule};
use crate::learned::resolved::Piece;

/// Writes `derived`, whose signals the program knows.
pub(super) fn write(w: &mut Writer, derived: &Flat<Piece>) -> Result<(), ImageError> {
    let rows = derived.values.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    w.rows(&rows, DERIVED, 40, |w, (low, high, option, numbers)| {
        w.raw(*low);
        w.raw(*high);
        w.raw(*option);
        for number in *numbers {
            w.u32(number);
        }
    });
    Ok(())
}

/// Bounds, option, and the numbers of `struct image_derived`.
type Row = (f64, f64, f64, [usize; 4]);

fn row(value: &Derived<Piece>) -> Result<Row, ImageError> {
    let (name, option, signal, of) = match &value.derivation {
        Derivation::Constant(x) => ("constant", *x, 0, [0; 2]),
        Derivation::Signal(piece) => {
            ("signal", piece.options.first().copied().unwrap_or(0.0), number_of(piece, SIGNALS)?, [0; 2])
        }
        Derivation::Quotient(of, default) => ("quotient", *default, 0, *of),
        Derivation::Difference(of) => ("difference", 0.0, 0, *of),
        Derivation::Held(of, Rule::Ewma { gain, reset }) => ("ewma", *gain, 0, [*of, (*reset).into()]),
        Derivation::Held(of, Rule::Of(statistic, Over::Flow)) => (statistic.name(), 0.0, 0, [*of, 0]),
        Derivation::Held(_, Rule::Of(statistic, over)) => {
            return Err(unknown(format!("{} over {over:?}", statistic.name())));
        }
    };
    let number = DERIVATIONS.iter().position(|known| *known == name).ok_or_else(|| unknown(name.into()))?;
    Ok((value.low, value.high, option, [number, signal, of[0], of[1]]))
}

fn unknown(rule: String) -> ImageError {
    ImageError::Piece { piece: format!("derived signal by {rule:?}"), known: DERIVATIONS.join(", ") }
}
