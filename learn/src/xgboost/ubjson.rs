//! Reads UBJSON as XGBoost writes models: objects, counted arrays, typed arrays of numbers. Numbers are big-endian.
//!
//! It reads only the types that a model file needs. For anything else the result is `None`, and the caller does
//! without.

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Null, true or false, which nothing here looks at.
    Constant,
    /// A single number.
    Number(f64),
    /// Text.
    Text(String),
    /// Integers of any width.
    Integers(Vec<i64>),
    /// 32-bit numbers, bit for bit.
    Floats(Vec<f32>),
    /// Values of any kind.
    Array(Vec<Value>),
    /// Names and values in their order.
    Object(Vec<(String, Value)>),
}

/// Maximum nesting: no model file nests deeper.
const DEEPEST: usize = 32;

impl Value {
    /// The value that some bytes begin with.
    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let marker = byte(&mut bytes)?;
        value(&mut bytes, marker, DEEPEST)
    }

    /// The value at the end of a path of names.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| match value {
            Self::Object(entries) => entries.iter().find(|e| e.0 == *name).map(|e| &e.1),
            _ => None,
        })
    }

    /// The text at the end of a path.
    pub fn text(&self, path: &[&str]) -> Option<&str> {
        match self.at(path)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integers at the end of a path.
    pub fn integers(&self, path: &[&str]) -> Option<&[i64]> {
        match self.at(path)? {
            Self::Integers(all) => Some(all),
            _ => None,
        }
    }

    /// The 32-bit numbers at the end of a path.
    pub fn floats(&self, path: &[&str]) -> Option<&[f32]> {
        match self.at(path)? {
            Self::Floats(all) => Some(all),
            _ => None,
        }
    }

    /// The values at the end of a path.
    pub fn array(&self, path: &[&str]) -> Option<&[Self]> {
        match self.at(path)? {
            Self::Array(all) => Some(all),
            _ => None,
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    take(bytes, 1).map(|b| b[0])
}

/// Bytes of a number with this marker.
fn width(marker: u8) -> Option<usize> {
    match marker {
        b'i' | b'U' => Some(1),
        b'I' => Some(2),
        b'l' | b'd' => Some(4),
        b'L' | b'D' => Some(8),
        _ => None,
    }
}

fn integer(marker: u8, bytes: &[u8]) -> Option<i64> {
    Some(match marker {
        b'i' => i64::from(i8::from_be_bytes(bytes.try_into().ok()?)),
        b'U' => i64::from(*bytes.first()?),
        b'I' => i64::from(i16::from_be_bytes(bytes.try_into().ok()?)),
        b'l' => i64::from(i32::from_be_bytes(bytes.try_into().ok()?)),
        b'L' => i64::from_be_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

/// A length with its marker.
fn length(bytes: &mut &[u8]) -> Option<usize> {
    let marker = byte(bytes)?;
    let number = integer(marker, take(bytes, width(marker)?)?)?;
    usize::try_from(number).ok()
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    let length = length(bytes)?;
    String::from_utf8(take(bytes, length)?.to_vec()).ok()
}

fn value(bytes: &mut &[u8], marker: u8, depth: usize) -> Option<Value> {
    let deeper = depth.checked_sub(1)?;
    match marker {
        b'Z' | b'T' | b'F' => Some(Value::Constant),
        b'S' => text(bytes).map(Value::Text),
        b'd' => {
            let number = f32::from_be_bytes(take(bytes, 4)?.try_into().ok()?);
            Some(Value::Number(f64::from(number)))
        }
        b'D' => {
            let number = f64::from_be_bytes(take(bytes, 8)?.try_into().ok()?);
            Some(Value::Number(number))
        }
        b'{' => {
            let mut entries = Vec::new();
            while *bytes.first()? != b'}' {
                let name = text(bytes)?;
                let marker = byte(bytes)?;
                entries.push((name, value(bytes, marker, deeper)?));
            }
            byte(bytes)?;
            Some(Value::Object(entries))
        }
        b'[' => array(bytes, deeper),
        marker => {
            let number = integer(marker, take(bytes, width(marker)?)?)?;
            Some(Value::Number(number as f64))
        }
    }
}

fn array(bytes: &mut &[u8], depth: usize) -> Option<Value> {
    match *bytes.first()? {
        b'$' => {
            byte(bytes)?;
            let marker = byte(bytes)?;
            if byte(bytes)? != b'#' {
                return None;
            }
            let (count, width) = (length(bytes)?, width(marker)?);
            let numbers = take(bytes, count.checked_mul(width)?)?.chunks_exact(width);
            match marker {
                b'd' => numbers
                    .map(|n| Some(f32::from_be_bytes(n.try_into().ok()?)))
                    .collect::<Option<_>>()
                    .map(Value::Floats),
                b'D' => None,
                _ => numbers
                    .map(|n| integer(marker, n))
                    .collect::<Option<_>>()
                    .map(Value::Integers),
            }
        }
        b'#' => {
            byte(bytes)?;
            let count = length(bytes)?;
            let mut values = Vec::new();
            for _ in 0..count {
                let marker = byte(bytes)?;
                values.push(value(bytes, marker, depth)?);
            }
            Some(Value::Array(values))
        }
        _ => {
            let mut values = Vec::new();
            while *bytes.first()? != b']' {
                let marker = byte(bytes)?;
                values.push(value(bytes, marker, depth)?);
            }
            byte(bytes)?;
            Some(Value::Array(values))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_models_have_is_read() {
        let bytes = b"{L\0\0\0\0\0\0\0\x01a[$d#L\0\0\0\0\0\0\0\x02\x3f\x80\0\0\x7f\xc0\0\0i\x01b[#i\x02SU\x02hiT\
                      i\x01c[$l#i\x01\xff\xff\xff\xffi\x01d[l\0\0\0\x05]}";
        let value = Value::read(bytes).unwrap();
        let floats = value.floats(&["a"]).unwrap();
        assert!(floats[0] == 1.0 && floats[1].is_nan());
        assert_eq!(
            value.array(&["b"]).unwrap(),
            [Value::Text("hi".to_owned()), Value::Constant]
        );
        assert_eq!(value.integers(&["c"]), Some(&[-1][..]));
        assert_eq!(value.array(&["d"]).unwrap(), [Value::Number(5.0)]);
        assert_eq!(value.at(&["e"]), None);
    }

    #[test]
    fn damage_ends_in_nothing() {
        let deep = b"[".repeat(1000);
        for bytes in [
            &b""[..],
            b"{",
            b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff",
            b"[#L\x7f\xff\xff\xff\xff\xff\xff\xff",
            b"x",
            &deep,
        ] {
            assert_eq!(Value::read(bytes), None);
        }
    }
}
