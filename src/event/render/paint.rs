//! ANSI colours, or none. Colour means change: removed red, added green, modified amber.

#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    fn sgr(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.sgr("2", text)
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.sgr("1", text)
    }

    pub(super) fn removed(self, text: &str) -> String {
        self.sgr("31", text)
    }

    pub(super) fn added(self, text: &str) -> String {
        self.sgr("32", text)
    }

    pub(super) fn modified(self, text: &str) -> String {
        self.sgr("33", text)
    }

    /// A line of a unified diff, by its mark.
    pub(super) fn marked(self, line: &str) -> String {
        match line.as_bytes().first() {
            Some(b'+') => self.added(line),
            Some(b'-') => self.removed(line),
            Some(b'@' | b'\\') => self.dim(line),
            _ => line.to_owned(),
        }
    }
}
