//! Where a value begins and ends: in quotes, a word, the rest of a line with the lines that go on, a block of lines.

use super::{super::nothing::says_nothing, NAME, Value, is_name};

/// What may stand right before a quote and belong to it: `N'x'` in SQL, `b'x'` and `r"x"` in programs, `@"x"`, `$'x'`.
const PREFIXES: &[u8] = b"NnBbRrUuFfEeXxLQq@$";

impl Value<'_> {
    pub(super) fn value(&self, from: usize, colon: bool) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        let mut from = self.spaces(from);
        // How the API server tells of a wrong value.
        if let Some(rest) = self.text[from..].strip_prefix("Invalid value:") {
            from = self.spaces(self.text.len() - rest.len());
        }
        for quotes in ["\"\"\"", "'''"] {
            if let Some(rest) = self.text[from..].strip_prefix(quotes) {
                return self.trimmed(from + 3, rest.find(quotes).map_or(self.text.len(), |len| from + 3 + len));
            }
        }
        if let Some(document) = self.here_document(from) {
            return Some(document);
        }
        // In YAML the value may have an anchor and a tag before it, and a comment after it.
        let content = if colon { self.unmarked(from) } else { from };
        if colon && self.is_over(content) {
            let block = self.block(false);
            let is_plain = content == from && !self.text[from..].starts_with('#');
            if block.is_some() || is_plain || self.mapping().is_some() {
                return block;
            }
        }
        let slashes = bytes[from..].iter().take_while(|b| **b == b'\\').count();
        match bytes.get(from + slashes) {
            Some(&quote @ (b'"' | b'\'' | b'`')) => {
                let start = from + slashes + 1;
                return Some((start, self.closing(start, quote, slashes)));
            }
            None if slashes == 0 => return None,
            Some(b'\n' | b'\r') if slashes == 0 => return None,
            _ => {}
        }
        match bytes.get(content) {
            Some(&quote @ (b'"' | b'\'')) if content > from => {
                return Some((content + 1, self.closing(content + 1, quote, 0)));
            }
            Some(b'|' | b'>') if colon && self.block_follows(content + 1) => return self.block(true),
            Some(b'[') => return self.trimmed(content + 1, self.closing_bracket(content)),
            Some(b'{') if !self.is_word(content) => return None,
            _ => {}
        }
        if let Some(quoted) = self.prefixed(from) {
            return Some(quoted);
        }
        let is_header = self.bare.to_ascii_lowercase().ends_with("authorization");
        if self.begins_line() || is_header {
            let mut end = self.line_end(from);
            while self.text[..end].ends_with('\\') && end < self.text.len() {
                end = self.line_end(end + 1);
            }
            if self.begins_line() && !says_nothing(&self.text[from..end]) {
                end = self.continued(end);
            }
            if is_header {
                end = self.text[from..end].find(['"', '\'']).map_or(end, |len| from + len);
            }
            return self.trimmed(from, end);
        }
        self.word(from, content, colon)
    }

    /// `password=x;user=y` and `?token=x&page=2`: up to what looks like the next assignment. In braces a value may hold
    /// blanks, and ends where they close.
    fn word(&self, from: usize, content: usize, colon: bool) -> Option<(usize, usize)> {
        let rest = &self.text[content..];
        let blanks = colon && matches!(self.text.as_bytes()[from - 1], b' ' | b'\t') && self.in_braces();
        let mut open = 0usize;
        let mut ends = |at: usize, c: char| match c {
            '"' | '\'' | '`' | '<' => true,
            '\\' => rest[at + 1..].starts_with('n'),
            ';' | '&' | ',' => {
                let word = &rest.as_bytes()[at + 1..];
                let len = word.iter().take(NAME).take_while(|b| is_name(**b) || **b == b' ').count();
                len > 0 && matches!(word.get(len), Some(b'=' | b':'))
            }
            '{' if blanks => {
                open += 1;
                false
            }
            '}' if blanks && open == 0 => true,
            '}' if blanks => {
                open -= 1;
                false
            }
            ' ' | '\t' if blanks => false,
            _ => c.is_whitespace(),
        };
        let end = rest.char_indices().find(|&(at, c)| ends(at, c)).map_or(rest.len(), |(at, _)| at);
        if blanks {
            return self.trimmed(from, content + end);
        }
        let value = rest[..end].trim_end_matches([')', ']', '}', ',', ';', '\\']);
        Some((from, content + value.len()))
    }

    fn line_end(&self, from: usize) -> usize {
        self.text[from..].find('\n').map_or(self.text.len(), |len| from + len)
    }

    /// Behind the anchor and the tag of YAML that stand at this place: `&pw !!binary `.
    pub(super) fn unmarked(&self, from: usize) -> usize {
        let mut at = from;
        for _ in 0..2 {
            if !self.text[at..].starts_with(['&', '!']) {
                break;
            }
            let near = self.near_after(at);
            match near.find([' ', '\t', '\r', '\n']) {
                Some(len) => at = self.spaces(at + len),
                None => break,
            }
        }
        at
    }

    /// Whether nothing more stands on the line, but perhaps a comment.
    pub(super) fn is_over(&self, at: usize) -> bool {
        let commented = self.text[..at].ends_with([' ', '\t']);
        match self.text.as_bytes().get(at) {
            Some(b'\n' | b'\r') => true,
            Some(b'#') => commented,
            _ => false,
        }
    }

    /// `<<EOT`, and the lines up to one that says the same: all of them, to the end when none does.
    fn here_document(&self, from: usize) -> Option<(usize, usize)> {
        let rest = &self.text[from..];
        if !rest.starts_with("<<") && !rest.starts_with("$(") {
            return None;
        }
        let (before, after) = self.near_after(from).split('\n').next()?.split_once("<<")?;
        if !matches!(before.trim(), "" | "$(cat") {
            return None;
        }
        let word = after.trim_start_matches(['-', '~', ' ', '"', '\'', '\\']);
        let word = &word[..word.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()];
        if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let start = (self.line_end(from) + 1).min(self.text.len());
        let mut end = start;
        for line in self.text[start..].split_inclusive('\n') {
            if line.trim() == word {
                break;
            }
            end += line.len();
        }
        self.trimmed(start, end)
    }

    /// A quote that closes on its line, with a letter or two before it.
    fn prefixed(&self, from: usize) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        let is_prefix = |b: &&u8| b.is_ascii_alphabetic() || matches!(b, b'@' | b'$');
        let len = bytes[from..].iter().take(3).take_while(is_prefix).count();
        let quote = *bytes.get(from + len).filter(|b| len > 0 && matches!(b, b'"' | b'\''))?;
        let start = from + len + 1;
        self.near_after(start).split('\n').next().filter(|line| len < 3 && line.contains(quote as char))?;
        let end = self.closing(start, quote, 0);
        let known = bytes[from..from + len].iter().all(|b| PREFIXES.contains(b));
        Some(if known { (start, end) } else { (from, (end + 1).min(self.text.len())) })
    }

    /// Whether what begins with a brace is no mapping: nothing is assigned in it, and it does not close.
    fn is_word(&self, from: usize) -> bool {
        let rest = self.near_after(from + 1);
        let line = rest.split('\n').next().unwrap_or(rest).trim();
        !line.is_empty() && !line.contains(['{', '}', ':', '=', '"', '\''])
    }

    /// What begins with a brace and is no mapping either, as nothing is assigned within it: `{noop}x`.
    pub(super) fn braced(&self) -> Option<(usize, usize)> {
        let (from, _) = self.assigned()?;
        let rest = self.text[from..].strip_prefix('{').filter(|rest| !rest.starts_with(['{', '%']))?;
        let line = rest.split('\n').next().unwrap_or(rest);
        let end = if self.begins_line() { line.len() } else { line.find([' ', '\t', '"', '\'']).unwrap_or(line.len()) };
        let (start, end) = self.trimmed(from, from + 1 + end)?;
        let word = &self.text[start..end];
        (!word.trim_matches(['{', '}', ' ', '\t']).is_empty()).then_some((start, end))
    }

    /// Whether nothing but the marks of a block scalar stands on the rest of the line, and perhaps a comment.
    fn block_follows(&self, from: usize) -> bool {
        let near = self.near_after(from);
        let line = near.split('\n').next().unwrap_or(near);
        let marks = line.split_once(" #").map_or(line, |(marks, _)| marks);
        (line.len() < near.len() || marks.len() < line.len())
            && marks.bytes().all(|b| b"+-0123456789 \t\r".contains(&b))
    }

    /// Where the quote that is open closes; the end of the text when it never does.
    pub(super) fn closing(&self, start: usize, quote: u8, slashes: usize) -> usize {
        let bytes = self.text.as_bytes();
        let (mut at, mut run) = (start, 0);
        while at < bytes.len() {
            match bytes[at] {
                b'\\' => run += 1,
                byte if byte == quote => {
                    let doubled = quote == b'\'' && slashes == 0 && bytes.get(at + 1) == Some(&b'\'');
                    let closes = if slashes == 0 { run % 2 == 0 } else { run <= slashes };
                    if doubled {
                        at += 1;
                    } else if closes {
                        return at - run.min(slashes);
                    }
                    run = 0;
                }
                _ => run = 0,
            }
            at += 1;
        }
        bytes.len()
    }

    /// The same of a bracket, with those that are within it.
    fn closing_bracket(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (at, byte) in self.text.bytes().enumerate().skip(open) {
            match byte {
                b'[' => depth += 1,
                b']' if depth == 1 => return at,
                b']' => depth -= 1,
                _ => {}
            }
        }
        self.text.len()
    }

    /// The end of the lines after this one that go on with its value: indented deeper, and no assignments.
    fn continued(&self, line_end: usize) -> usize {
        let column = self.column();
        let (mut at, mut end) = ((line_end + 1).min(self.text.len()), line_end);
        for line in self.text[at..].split_inclusive('\n') {
            let content = line.trim();
            at += line.len();
            if content.is_empty() {
                continue;
            }
            if indent(line) <= column || content.starts_with(['#', ';', '[', '<', '}', ')']) || assigns(content) {
                break;
            }
            end = at;
        }
        end
    }

    /// The lines below the name that are indented deeper. A block scalar is masked whole; otherwise it is a text over
    /// several lines or a list of texts, and no mapping: that is read by itself.
    fn block(&self, scalar: bool) -> Option<(usize, usize)> {
        if !self.begins_line() {
            return None;
        }
        let own = self.column();
        let mut at = (self.line_end(self.name.end) + 1).min(self.text.len());
        let mut lines: Option<(usize, usize)> = None;
        for line in self.text[at..].split_inclusive('\n') {
            let (content, begin) = (line.trim(), at);
            at += line.len();
            if content.is_empty() || (!scalar && content.starts_with('#')) {
                continue;
            }
            let item = !scalar && (content == "-" || content.starts_with("- "));
            let deeper = indent(line) > own || (item && indent(line) == own);
            let first = lines.is_none();
            let mapping = !scalar && (first || !item) && is_field(content.trim_start_matches("- "));
            if !deeper || mapping || (first && item && content == "-") {
                break;
            }
            lines = Some((lines.map_or(begin, |(start, _)| start), at));
        }
        let (start, end) = lines?;
        self.trimmed(start, end)
    }

    pub(super) fn trimmed(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let part = self.text.get(start..end)?;
        let from = start + (part.len() - part.trim_start().len());
        let value = part.trim();
        let value = value.strip_suffix([',', ';']).unwrap_or(value).trim_end();
        (!value.is_empty()).then(|| (from, from + value.len()))
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Whether a line is a field of a mapping.
fn is_field(content: &str) -> bool {
    content
        .split_once(':')
        .is_some_and(|(key, rest)| !key.contains(' ') && (rest.is_empty() || rest.starts_with([' ', '\t'])))
}

/// Whether a line assigns something itself, in any form.
fn assigns(content: &str) -> bool {
    let name = content.trim_start_matches("- ").trim_start_matches(['"', '\'']);
    let len = name.bytes().take(NAME).take_while(|b| is_name(*b)).count();
    let sign = name[len..].trim_start_matches(['"', '\'', ' ', '\t']);
    is_field(content) || (len > 0 && (sign.starts_with('=') || sign.starts_with(": ")))
}
