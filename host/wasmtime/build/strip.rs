//! Strips debug names from a component. `src/compose/tests.rs` tests this file.

/// The preamble of a component: magic, version 0x0d, layer 1.
const PREAMBLE: &[u8] = b"\0asm\x0d\0\x01\0";
/// The id of a custom section.
const CUSTOM: u8 = 0;
/// The id of a section with a nested component.
const COMPONENT: u8 = 4;

/// Returns the component without debug names, also in nested components. Returns `None` if it is
/// not a component.
pub fn without_names(component: &[u8]) -> Option<Vec<u8>> {
    let mut remaining = component.strip_prefix(PREAMBLE)?;
    let mut stripped = PREAMBLE.to_vec();
    while let [id, section @ ..] = remaining {
        let (size, section) = read_length(section)?;
        let (content, next_sections) = section.split_at_checked(size)?;
        remaining = next_sections;
        let inner;
        let content = match *id {
            CUSTOM if read_length(content)?.1.starts_with(b"component-name") => continue,
            COMPONENT => {
                inner = without_names(content)?;
                &inner
            }
            _ => content,
        };
        stripped.push(*id);
        write_length(&mut stripped, content.len());
        stripped.extend(content);
    }
    Some(stripped)
}

/// Reads a LEB128 number. Returns it and the bytes behind it.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((length, bytes.get(index + 1..)?));
        }
    }
    None
}

fn write_length(output: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        output.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    output.push(length as u8);
}
