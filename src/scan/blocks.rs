//! The end of a nested JSON value, by blocks of 64 bytes: in most texts every third byte is a quote, a comma or a colon,
//! and looking at each of them by itself takes longer than all the rest of a verdict.
//!
//! A block is turned into masks, with a bit for each byte: where quotes, backslashes and brackets are. What lies between
//! two quotes is a matter of a few shifts.

use wide::u8x16;

/// Bytes of a block.
const BLOCK: usize = 64;
/// Bytes that are compared at once.
const LANES: usize = 16;
/// This bit makes braces of brackets, and of nothing else.
const TO_BRACES: u8 = b'{' ^ b'[';

/// Where `bytes`, which begin with an opening bracket, close it: the length up to behind there. Nothing where they do not.
pub(super) fn nested_length(bytes: &[u8]) -> Option<usize> {
    let mut walk = Walk::default();
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for (index, block) in blocks.iter().enumerate() {
        if let Some(end) = walk.block(block) {
            return Some(index * BLOCK + end);
        }
    }
    let mut last = [b' '; BLOCK];
    last.get_mut(..rest.len())?.copy_from_slice(rest);
    walk.block(&last).map(|end| blocks.len() * BLOCK + end)
}

/// What of a block matters, a bit for each byte, the first byte's the lowest.
#[derive(Default)]
struct Masks {
    quotes: u64,
    backslashes: u64,
    opening: u64,
    closing: u64,
}

impl Masks {
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut masks = Self::default();
        let (parts, _) = block.as_chunks::<LANES>();
        for (index, part) in parts.iter().enumerate() {
            let part = u8x16::new(*part);
            let braces = part | u8x16::splat(TO_BRACES);
            let at = |of: u8x16, byte: u8| {
                let equal = of.simd_eq(u8x16::splat(byte));
                u64::from(equal.to_bitmask()) << (index * LANES)
            };
            masks.quotes |= at(part, b'"');
            masks.backslashes |= at(part, b'\\');
            masks.opening |= at(braces, b'{');
            masks.closing |= at(braces, b'}');
        }
        masks
    }
}

/// What is known between two blocks.
#[derive(Default)]
struct Walk {
    depth: u32,
    /// All bits when a string goes on, none otherwise.
    in_string: u64,
    /// The lowest bit when the first byte is escaped.
    escaped: u64,
}

impl Walk {
    /// Goes through a block. Returns the length up to where the depth is zero again.
    fn block(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let masks = Masks::of(block);
        let escaped = self.escaped(masks.backslashes);
        let strings = between(masks.quotes & !escaped) ^ self.in_string;
        self.in_string = if strings >> 63 == 1 { u64::MAX } else { 0 };
        let (opening, closing) = (masks.opening & !strings, masks.closing & !strings);
        if closing.count_ones() < self.depth {
            self.depth = self.depth + opening.count_ones() - closing.count_ones();
            return None;
        }
        let mut brackets = opening | closing;
        while brackets != 0 {
            let bracket = brackets & brackets.wrapping_neg();
            brackets ^= bracket;
            if opening & bracket != 0 {
                self.depth += 1;
                continue;
            }
            self.depth -= 1;
            if self.depth == 0 {
                return Some(bracket.trailing_zeros() as usize + 1);
            }
        }
        None
    }

    /// The bytes that a backslash before them escapes.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        let mut escaped = std::mem::take(&mut self.escaped);
        let mut rest = backslashes & !escaped;
        while rest != 0 {
            let backslash = rest & rest.wrapping_neg();
            escaped |= backslash << 1;
            self.escaped = backslash >> 63;
            rest &= !(backslash | backslash << 1);
        }
        escaped
    }
}

/// From each first quote up to before the second.
const fn between(quotes: u64) -> u64 {
    let mut mask = quotes;
    mask ^= mask << 1;
    mask ^= mask << 2;
    mask ^= mask << 4;
    mask ^= mask << 8;
    mask ^= mask << 16;
    mask ^ (mask << 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Byte by byte.
    fn model(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
        for (index, byte) in bytes.iter().enumerate() {
            let is_escaped = std::mem::take(&mut escaped);
            match byte {
                b'\\' => escaped = !is_escaped,
                b'"' if !is_escaped => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    #[test]
    fn wherever_a_block_ends() {
        for padding in 0..200 {
            for inner in [
                r#""}""#,
                r#""\"}""#,
                r#""\\""#,
                r#"{"\\\"]":[]}"#,
                "[[[[]]]]",
            ] {
                let text = format!("[{}{inner}]]", " ".repeat(padding));
                assert_eq!(
                    nested_length(text.as_bytes()),
                    Some(padding + inner.len() + 2),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn what_has_no_end() {
        for text in [
            "[",
            "{\"}",
            "[\"]\\\"",
            &"[".repeat(1000),
            &format!("[{}", "[]".repeat(1000)),
        ] {
            assert_eq!(nested_length(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn as_byte_by_byte(text in r#"[{}\[\]",:\\a\nz1 ]{0,300}"#) {
            let text = format!("{{{text}");
            prop_assert_eq!(nested_length(text.as_bytes()), model(text.as_bytes()));
        }

        #[test]
        fn whatever_the_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [&b"["[..], &bytes].concat();
            prop_assert_eq!(nested_length(&bytes), model(&bytes));
        }
    }
}
