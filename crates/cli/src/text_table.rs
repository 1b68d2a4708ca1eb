// SPDX-License-Identifier: GPL-2.0-or-later
//! A table of text whose columns are as wide as their cells.

use ::report::format;

/// A table whose columns are as wide as their widest cell, with a minimum width for each.
#[derive(Default)]
pub struct TextTable {
    columns: Vec<Column>,
    /// Each row with a remark after its last cell.
    rows: Vec<(Vec<String>, String)>,
}

struct Column {
    head: String,
    width: usize,
    to_the_left: bool,
}

impl TextTable {
    pub fn left(&mut self, head: &str, width: usize) {
        self.columns.push(Column { head: head.to_owned(), width, to_the_left: true });
    }

    pub fn right(&mut self, head: &str, width: usize) {
        self.columns.push(Column { head: head.to_owned(), width, to_the_left: false });
    }

    pub fn row(&mut self, cells: Vec<String>, remark: String) {
        self.rows.push((cells, remark));
    }

    pub fn text(mut self) -> String {
        for (n, column) in self.columns.iter_mut().enumerate() {
            if !column.to_the_left {
                format::align_ranges(self.rows.iter_mut().map(|(cells, _)| &mut cells[n]));
            }
            // Numbers stay two blanks apart.
            let apart = usize::from(!column.to_the_left);
            let widths = self.rows.iter().map(|(cells, _)| cells[n].chars().count() + apart);
            let head = column.head.chars().count() + apart;
            column.width = column.width.max(widths.max().unwrap_or(0)).max(head);
        }
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.clone()).collect();
        let mut text = self.line(&heads, "");
        for (cells, remark) in &self.rows {
            text += &self.line(cells, remark);
        }
        text
    }

    fn line(&self, cells: &[String], remark: &str) -> String {
        let cells = self.columns.iter().zip(cells).map(|(column, cell)| {
            let width = column.width;
            if column.to_the_left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let text = cells.collect::<Vec<_>>().join(" ") + remark;
        text.trim_end().to_owned() + "\n"
    }
}
