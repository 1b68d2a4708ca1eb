// SPDX-License-Identifier: GPL-2.0-or-later
//! The windows that buffers allow.
//!
//! A receive window is two thirds of an autotuned receive buffer: the rest is for the kernel's overhead. A program that
//! found the send buffer full is told to go on when a third of it is free (Linux's `sk_stream_is_writeable`), so two thirds
//! are out. Measured on Linux 6.18; kernels before 6.6 take a fixed share instead (`tcp_adv_win_scale`).

use units::Bytes;

/// The share of an autotuned buffer that is window.
pub const AUTOTUNED_SHARE: f64 = 2.0 / 3.0;

/// The window that an autotuned receive buffer allows.
pub fn receive_window(buffer: Bytes) -> Bytes {
    two_thirds(buffer)
}

/// What a send buffer lets out before it is acknowledged.
pub fn send_window(buffer: Bytes) -> Bytes {
    two_thirds(buffer)
}

fn two_thirds(buffer: Bytes) -> Bytes {
    Bytes::new(buffer.get() / 3 * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thirds_of_a_buffer_are_window() {
        assert_eq!(receive_window(Bytes::new(3001)), Bytes::new(2000));
        assert_eq!(send_window(Bytes::new(u64::MAX)).get(), u64::MAX / 3 * 2);
        assert!((AUTOTUNED_SHARE - 2.0 / 3.0).abs() < 1e-12);
    }
}
