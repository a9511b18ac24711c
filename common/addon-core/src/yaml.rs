//! Reading YAML as `kubectl` does.

use serde::de::DeserializeOwned;

/// Text that cannot be read, with the place as the reader gives it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// Reads one document.
///
/// `0644` is octal, as for `kubectl` (YAML 1.1): a `defaultMode: 0644` means 420.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| YamlError(error.to_string()))
}

/// Reads every document of a stream; empty ones are left out.
pub fn documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| YamlError(error.to_string()))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { legacy_octal_numbers: true }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn a_leading_zero_means_octal() {
        let read: Value = super::from_str("defaultMode: 0644\nplain: 644").unwrap();
        assert_eq!(read, json!({"defaultMode": 420, "plain": 644}));
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let previous = format!("*a{}", level - 1);
            text += &format!("a{level}: &a{level} [{}]\n", vec![previous; 9].join(", "));
        }
        assert!(super::from_str::<Value>(&text).is_err());
    }
}
