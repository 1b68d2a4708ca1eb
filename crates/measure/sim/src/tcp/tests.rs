// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP against packets that arrive late, twice or not at all: a sender by scripts of acknowledgements with the expected
//! transmissions (`sender_scripts`), a receiver by its acknowledgements (`receiver_reports`), and both over a path that
//! treats packets by a rule (`uneven_path`). `test_path` is that path.

mod receiver_reports;
mod sender_scripts;
mod test_path;
mod uneven_path;
