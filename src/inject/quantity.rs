//! Kubernetes quantities, exactly: any notation in, sums and comparisons, the canonical decimal notation out.
//!
//! A quantity is kept as a whole number of billionths, which is the smallest part that Kubernetes keeps (it rounds
//! finer ones away from zero, and so do we). No floating point.

use std::{fmt, str::FromStr};

/// Digits after the point that are kept.
const NANO_DIGITS: i64 = 9;

/// An exact amount of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nanos: i128,
}

/// Why a text is no [`Quantity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with one of the suffixes that Kubernetes knows.
    #[error(
        "is not a quantity: a decimal number with one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent such as e3"
    )]
    Syntax,
    /// More than about 10^29, or so many digits that it cannot be told exactly.
    #[error("is out of range")]
    OutOfRange,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Whether it is nothing, in whatever notation.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self, QuantityError> {
        let nanos = self.nanos.checked_add(other.nanos);
        nanos
            .map(|nanos| Self { nanos })
            .ok_or(QuantityError::OutOfRange)
    }

    /// What is missing from `self` up to `wanted`; nothing when it is enough.
    pub fn short_of(self, wanted: Self) -> Result<Self, QuantityError> {
        let nanos = wanted.nanos.checked_sub(self.nanos);
        nanos
            .map(|nanos| Self {
                nanos: nanos.max(0),
            })
            .ok_or(QuantityError::OutOfRange)
    }
}

impl From<u64> for Quantity {
    fn from(count: u64) -> Self {
        Self {
            nanos: i128::from(count) * 1_000_000_000,
        }
    }
}

/// What a suffix multiplies with.
enum Scale {
    Ten(i64),
    Two(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "" => Self::Ten(0),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            _ => Self::Ten(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        let suffix_at = unsigned
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(suffix_at);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError::Syntax);
        }
        let scale = Scale::parse(suffix).ok_or(QuantityError::Syntax)?;

        let fraction = fraction.trim_end_matches('0');
        let nanos = scaled(digits(whole, fraction)?, fraction.len(), &scale)?;
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
        })
    }
}

/// The digits before and after the point as one number.
fn digits(whole: &str, fraction: &str) -> Result<i128, QuantityError> {
    whole
        .bytes()
        .chain(fraction.bytes())
        .try_fold(0i128, |number, digit| {
            number
                .checked_mul(10)?
                .checked_add(i128::from(digit - b'0'))
        })
        .ok_or(QuantityError::OutOfRange)
}

/// `digits` with `fraction` of them after the point, times `scale`, in billionths; finer parts count as one.
fn scaled(digits: i128, fraction: usize, scale: &Scale) -> Result<i128, QuantityError> {
    if digits == 0 {
        return Ok(0);
    }
    let (factor, exponent) = match *scale {
        Scale::Two(exponent) => (1i128 << exponent, 0),
        Scale::Ten(exponent) => (1, exponent),
    };
    let digits = digits
        .checked_mul(factor)
        .ok_or(QuantityError::OutOfRange)?;
    let fraction = i64::try_from(fraction).map_err(|_| QuantityError::OutOfRange)?;
    let shift = exponent.saturating_add(NANO_DIGITS - fraction);
    let power = u32::try_from(shift.unsigned_abs())
        .ok()
        .and_then(|shift| 10i128.checked_pow(shift));
    match power {
        Some(power) if shift >= 0 => digits.checked_mul(power).ok_or(QuantityError::OutOfRange),
        Some(power) => Ok(digits / power + i128::from(digits % power != 0)),
        None if shift >= 0 => Err(QuantityError::OutOfRange),
        None => Ok(1),
    }
}

impl fmt::Display for Quantity {
    /// The canonical notation: the largest decimal suffix that leaves a whole number.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        if self.is_zero() {
            return formatter.write_str("0");
        }
        let mut number = self.nanos;
        let mut suffix = "n";
        for larger in SUFFIXES.into_iter().skip(1) {
            if number % 1000 != 0 {
                break;
            }
            number /= 1000;
            suffix = larger;
        }
        write!(formatter, "{number}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn every_notation_of_a_number_is_that_number() {
        for (text, canonical) in [
            ("0", "0"),
            ("0e999999999999", "0"),
            ("-0", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1", "-1"),
            ("001", "1"),
            ("1.", "1"),
            (".5", "500m"),
            ("0.5", "500m"),
            ("1.50", "1500m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1k", "1k"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("1e+3", "1k"),
            ("1000e-3", "1"),
            ("0.001k", "1"),
            ("1E", "1E"),
            ("1e18", "1E"),
            ("1000E", "1000E"),
            ("1Ki", "1024"),
            ("0.5Ki", "512"),
            ("1.5Gi", "1610612736"),
            ("1Ei", "1152921504606846976"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1.1n", "2n"),
            ("-1.1n", "-2n"),
            ("1e-50", "1n"),
            ("12u", "12u"),
        ] {
            assert_eq!(quantity(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity() {
        for text in [
            "", " 1", "1 ", "+", "-", ".", "--1", "1.2.3", "1e", "1ee3", "e3", "1K", "1ki", "1mi",
            "0x10", "1_000", "1e3.5", "Ki", "1KiB", "١",
        ] {
            assert_eq!(
                text.parse::<Quantity>(),
                Err(QuantityError::Syntax),
                "{text}"
            );
        }
        for text in ["1e30", "9e99", &"9".repeat(60), "1e9223372036854775807"] {
            assert_eq!(
                text.parse::<Quantity>(),
                Err(QuantityError::OutOfRange),
                "{text}"
            );
        }
    }

    #[test]
    fn sums_are_exact() {
        assert_eq!(quantity("0.1").plus(quantity("200m")), Ok(quantity("0.3")));
        assert_eq!(
            quantity("1Ki").plus(Quantity::from(1)),
            Ok(quantity("1025"))
        );
        assert_eq!(
            quantity("0.5").short_of(Quantity::from(2)),
            Ok(quantity("1.5"))
        );
        assert_eq!(
            quantity("3").short_of(Quantity::from(2)),
            Ok(Quantity::ZERO)
        );
        let most = Quantity { nanos: i128::MAX };
        assert_eq!(most.plus(Quantity::from(1)), Err(QuantityError::OutOfRange));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in any::<String>()) {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn nearly_quantities_neither(text in "[+-]?[0-9.]{0,50}[eEkKMGinum]{0,3}[+-]?[0-9]{0,25}") {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn what_is_written_is_read_again(nanos in any::<i64>()) {
            let amount = Quantity { nanos: i128::from(nanos) };
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        }
    }
}
