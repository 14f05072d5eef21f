//! The way from one election of the process to another: a list of links above the page.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands for itself in the value of a query.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The links to all `elections`, of which `current` is shown. Empty where there is no other one.
pub(super) fn links(elections: &[&str], current: Option<&str>) -> String {
    if elections.len() < 2 {
        return String::new();
    }
    let link = |election: &&str| {
        let (query, name) = (query(election), escaped(election));
        let here = if current == Some(*election) { " aria-current=\"page\"" } else { "" };
        format!("    <li><a class=\"name\" href=\"/{query}\"{here}>{name}</a></li>\n")
    };
    let links: String = elections.iter().map(link).collect();
    format!("<nav class=\"elections\" aria-label=\"Elections\">\n  <ul>\n{links}  </ul>\n</nav>\n")
}

/// What chooses an election, behind a path.
pub(super) fn query(election: &str) -> String {
    format!("?election={}", utf8_percent_encode(election, PLAIN))
}

/// A name as text of the page: a blob may be called anything.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_election_is_a_link_and_the_one_that_is_shown_is_marked() {
        let told = links(&["jobs/a b", "jobs/c"], Some("jobs/c"));
        assert!(told.contains("href=\"/?election=jobs/a%20b\">jobs/a b</a>"), "{told}");
        assert!(
            told.contains("href=\"/?election=jobs/c\" aria-current=\"page\">jobs/c<"),
            "{told}"
        );
        assert_eq!(told.matches("aria-current").count(), 1);
        assert_eq!(links(&["jobs/a", "jobs/c"], None).matches("aria-current").count(), 0);
    }

    #[test]
    fn where_there_is_one_election_there_are_no_links() {
        assert_eq!(links(&["jobs/a"], Some("jobs/a")), "");
        assert_eq!(links(&[], None), "");
    }

    #[test]
    fn a_name_is_text_whatever_is_in_it() {
        let name = "a/<script>alert('1')</script>\"&amp;%3C#?=+";
        let told = links(&[name, "a/b"], None);
        let text = "a/&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;amp;%3C#?=+";
        assert!(told.contains(&format!(">{text}</a>")), "{told}");
        let link = "a/%3Cscript%3Ealert%28%271%27%29%3C/script%3E%22%26amp%3B%253C%23%3F%3D%2B";
        assert!(told.contains(&format!("href=\"/?election={link}\"")), "{told}");
        assert!(!told.contains("<script"), "{told}");
    }
}
