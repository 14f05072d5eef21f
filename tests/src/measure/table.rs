//! Aligned Markdown table, readable in a terminal and in a README.

use std::fmt;

/// Rows of cells under headings; all columns except the first are right-aligned.
#[derive(Clone, Debug)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    /// Creates a table without rows.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self(vec![headings.iter().map(ToString::to_string).collect()])
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        };
        for (number, row) in self.0.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let width = width(column);
                match column {
                    0 => write!(f, "| {cell:width$} ")?,
                    _ => write!(f, "| {cell:>width$} ")?,
                }
            }
            writeln!(f, "|")?;
            if number == 0 {
                for column in 0..row.len() {
                    let alignment = if column == 0 { '-' } else { ':' };
                    write!(f, "|{}{alignment}", "-".repeat(width(column) + 1))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["what", "µs"]);
        table.row(["a step".to_owned(), "1234.5".to_owned()]);
        let lines = ["| what   |     µs |", "|--------|-------:|", "| a step | 1234.5 |", ""];
        assert_eq!(table.to_string(), lines.join("\n"));
    }
}
