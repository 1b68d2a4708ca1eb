// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a copy ended before its last byte.

use std::io;

/// How a copy that did not arrive whole ended, and so whose fault that is.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source closed before the end.
    #[error("the source closed before the end")]
    CutOff,
    /// The source's connection failed.
    #[error("the source's connection failed: {0}")]
    SourceFailed(io::Error),
    /// The source's connection failed, or it closed early, after the sink had kept it waiting.
    #[error("the source gave up while the sink kept it waiting: {0}")]
    SourceGaveUp(io::Error),
    /// The source sent nothing for its idle time.
    #[error("the source sent nothing for its idle time")]
    SourceStalled,
    /// The source, a client, sent less than the minimum rate.
    #[error("the source sent less than the minimum rate")]
    SourceSlow,
    /// The sink closed or reset its connection.
    #[error("the sink's connection failed: {0}")]
    SinkGone(io::Error),
    /// The sink took nothing for its idle time.
    #[error("the sink took nothing for its idle time")]
    SinkStalled,
    /// The sink, a client, took less than the minimum rate.
    #[error("the sink took less than the minimum rate")]
    SinkSlow,
    /// The source sent more than was announced, or than is granted.
    #[error("the source sent more than was announced or granted")]
    TooLong,
}
