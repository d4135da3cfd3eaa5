//! Text and data inside HTML and SVG.

use serde_json::Value;

/// Text that HTML and SVG take as it is, in elements and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// An element with data for the scripts of a page. No text of the data can end the element.
pub fn data_element(attributes: &str, data: &Value) -> String {
    let data = data.to_string().replace('<', "\\u003c");
    format!("<script {attributes} type=\"application/json\">{data}</script>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escape("a < \"b\" & c>"), "a &lt; &quot;b&quot; &amp; c&gt;");
    }

    #[test]
    fn data_end_no_element() {
        let element = data_element("id=\"d\"", &serde_json::json!("</script>"));
        assert_eq!(element.matches("</script>").count(), 1);
        assert!(element.starts_with("<script id=\"d\" type=\"application/json\">"));
    }
}
