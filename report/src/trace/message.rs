//! Protocol buffers, written by hand: varints, lengths and fields, as far as Perfetto traces need them.

/// Bytes of a message under construction.
#[derive(Debug, Default, Clone)]
pub struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    /// An integer field; signed values go in as two's complement.
    pub fn uint(&mut self, field: u32, value: u64) {
        self.tag(field, 0);
        self.varint(value);
    }

    /// A double.
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// An integer of always eight bytes.
    pub fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes or a string.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A message within this one. Its length is written in place: most are shorter than 128 bytes.
    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.tag(field, 2);
        let at = self.0.len();
        self.0.push(0);
        fill(self);
        let length = self.0.len() - at - 1;
        if length < 0x80 {
            self.0[at] = length as u8;
            return;
        }
        let mut prefix = Message::default();
        prefix.varint(length as u64);
        self.0.splice(at..=at, prefix.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_as_the_format_says() {
        let mut message = Message::default();
        message.uint(1, 300);
        message.bytes(2, b"ab");
        message.message(3, |inner| inner.uint(1, 1));
        assert_eq!(
            message.0,
            [0x08, 0xac, 0x02, 0x12, 2, b'a', b'b', 0x1a, 2, 0x08, 1]
        );
        let mut long = Message::default();
        long.message(1, |inner| inner.bytes(1, &[7; 200]));
        assert_eq!(
            (&long.0[..3], long.0.len()),
            (&[0x0a, 0xcb, 0x01][..], 3 + 203)
        );
    }
}
