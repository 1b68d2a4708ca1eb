// SPDX-License-Identifier: GPL-2.0-or-later
//! Where received content goes: to `NAME.part`, which gets its name when all is there, into a directory, or to an output.

use crate::{
    Error, Progress,
    parcel::{
        note::{Kind, Note},
        pieces::Pieces,
        private, sparse,
        unpack::DirectoryPart,
    },
    part::{Identity, PartFile, appended},
};
use protocol::session::parcel::ParcelError;
use session::{Beginning, WholeDigest};
use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{task::block_in_place, time::timeout};
use units::Bytes as Size;

/// What is read of a part at a time to hash it.
const PIECE: usize = 1 << 20;

/// After this time without more, a checkpoint is made.
const STALL: Duration = Duration::from_secs(1);

/// Where to put what comes.
pub enum Output {
    /// Under the sender's name, in this directory.
    Directory(PathBuf),
    /// Into this file or directory.
    Path(PathBuf),
    /// To standard output, or the like.
    Stream(Box<dyn Write + Send>),
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) | Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// How what is here of an earlier transfer is known again.
pub(super) enum Earlier {
    /// By the note of a sender, which compares all of it.
    Compared,
    /// By this text, which is for one stored session. Bytes that may not be on the disk yet do not count: only the hash of the
    /// whole tells whether they are right.
    Named(String),
}

/// Where one stream goes.
pub(super) enum Place {
    /// The stream begins at this offset of the part: what is before it comes last.
    File {
        part: Box<PartFile>,
        identity: Identity,
        beginning: Box<Beginning>,
        ahead: u64,
    },
    Directory(Box<DirectoryPart>),
    /// It is there, whole.
    There {
        path: PathBuf,
        beginning: Box<Beginning>,
    },
    Stream,
}

impl Place {
    /// The place for what a note describes, with how much of it is there, hashed for this further digest.
    pub(super) async fn open(
        output: &mut Output,
        (overwrite, most): (bool, Option<Size>),
        note: &Note,
        earlier: Earlier,
        digest: Option<WholeDigest>,
    ) -> Result<Self, Error> {
        if let (Some(bytes), Some(most)) = (note.bytes, most)
            && bytes > most.get()
        {
            return Err(Error::TooLarge(most));
        }
        let path = match (&*output, &note.name) {
            (Output::Stream(_), _) if note.kind == Kind::Directory => {
                return Err(Error::Usage("a directory cannot go to standard output".to_owned()));
            }
            (Output::Stream(_), _) if note.kind == Kind::Growing => {
                let text = "a file whose beginning comes last cannot go to standard output";
                return Err(Error::Usage(text.to_owned()));
            }
            (Output::Stream(_), _) => return Ok(Self::Stream),
            (Output::Path(path), _) => path.clone(),
            (Output::Directory(directory), _) => note.place_in(directory).ok_or_else(|| {
                let text =
                    "the sent data has no name. Name it here: -o FILE, or at the sender: --name";
                Error::Usage(text.to_owned())
            })?,
        };
        if !overwrite && fs::symlink_metadata(&path).is_ok() {
            return Err(Error::Exists { file: path, why: String::new() });
        }
        if let (Output::Directory(directory), Some(folder)) = (&*output, &note.folder) {
            make_folders(directory, folder)?;
        }
        if note.kind == Kind::Directory {
            let part = DirectoryPart::open(&path, note, digest).await?;
            return Ok(Self::Directory(Box::new(part)));
        }
        Self::open_file(&path, note, earlier, digest).await
    }

    async fn open_file(
        path: &Path,
        note: &Note,
        earlier: Earlier,
        digest: Option<WholeDigest>,
    ) -> Result<Self, Error> {
        // A pipe's bytes have no name by which its sender could be known again.
        let is_file = matches!(note.kind, Kind::File | Kind::Growing);
        let may_resume = is_file || matches!(earlier, Earlier::Named(_));
        let (url, is_compared) = match earlier {
            Earlier::Compared => (String::from_utf8_lossy(&note.to_bytes()).into_owned(), true),
            Earlier::Named(text) => (text, false),
        };
        let identity = Identity { url, total: note.bytes, ..Identity::default() };
        // A pipe has no permissions of its own.
        let is_private = note.mode.is_some();
        if is_private {
            private::create(&appended(path, ".part"))?;
        }
        let (mut part, known) = PartFile::open(path, may_resume)?;
        if is_private {
            private::restrict(&part.reader().0);
        }
        let ahead = note.header_last.unwrap_or(0);
        let beginning = if known.as_ref() == Some(&identity) {
            if is_compared {
                part.hold_all();
            } else {
                part.keep_held()?;
            }
            hash_part(&part, ahead, digest).await?
        } else {
            part.reset().await?;
            Beginning::new(digest)
        };
        keep_free(&part, ahead)?;
        part.check_space(note.bytes.unwrap_or(0))?;
        part.checkpoint(&identity).await?;
        let (part, beginning) = (Box::new(part), Box::new(beginning));
        Ok(Self::File { part, identity, beginning, ahead })
    }

    /// A whole file that is there and may be the one that comes: it has the length that the note says, and is hashed. The sender
    /// compares it, and sends nothing if it is.
    pub(super) async fn there(
        directory: &Path,
        note: &Note,
        digest: Option<WholeDigest>,
    ) -> Result<Option<Self>, Error> {
        let path = note.place_in(directory).filter(|_| note.kind == Kind::File);
        let found = path.and_then(|path| Some((fs::symlink_metadata(&path).ok()?, path)));
        let Some((_, path)) =
            found.filter(|(data, _)| data.is_file() && note.bytes == Some(data.len()))
        else {
            return Ok(None);
        };
        let file = File::open(&path).map_err(|error| Error::file("open", &path, error))?;
        let length = note.bytes.unwrap_or_default();
        let beginning = Box::new(hash_file(Arc::new(file), path.clone(), 0..length, digest).await?);
        Ok(Some(Self::There { path, beginning }))
    }

    /// What is there already.
    pub(super) fn beginning(&self) -> Option<&Beginning> {
        match self {
            Self::File { beginning, .. } | Self::There { beginning, .. } => Some(beginning),
            Self::Directory(part) => Some(part.beginning()),
            Self::Stream => None,
        }
    }

    /// Nothing comes after all: everything stays as it is.
    pub(super) async fn abandon(self) {
        if let Self::Directory(part) = self {
            part.abandon().await;
        }
    }
}

/// What is done with a stream.
pub(super) struct Placing<'p> {
    pub output: &'p mut Output,
    pub overwrite: bool,
    pub note: &'p Note,
    pub shown: Shown<'p>,
}

impl Placing<'_> {
    /// Receives a stream and puts it in its place; with the file or directory.
    pub(super) async fn receive(
        mut self,
        place: Place,
        pieces: &mut impl Pieces,
    ) -> Result<Option<PathBuf>, Error> {
        let file = match place {
            Place::File { mut part, identity, beginning, ahead } => {
                let offset = ahead + beginning.length();
                let kept = keep(&mut part, &identity, offset, pieces, &mut self.shown).await;
                if kept.as_ref().is_err_and(is_other_beginning) {
                    part.reset().await?;
                }
                let length = kept? - ahead;
                let (file, path) = part.reader();
                let moved = block_in_place(|| put_header(&file, length, ahead));
                moved.map_err(|error| Error::file("write", &path, error))?;
                if let Some(mode) = self.note.mode {
                    let permissions = fs::Permissions::from_mode(mode & 0o777);
                    let _ = file.set_permissions(permissions);
                }
                part.finish(length, None, self.overwrite).await?;
                if let Some(date) = self.note.date() {
                    // Not every file system keeps every date.
                    let _ = rustix::fs::futimens(&file, &date.times());
                }
                Some(part.name().to_owned())
            }
            Place::Directory(part) => {
                let name = part.name().to_owned();
                let passed = |length, hops| self.shown.more(length, hops);
                part.receive(pieces, self.overwrite, passed).await?;
                Some(name)
            }
            Place::There { path, .. } => {
                if pieces.next().await?.is_some() {
                    let text = "the file is longer than the sender has said";
                    return Err(Error::Answer(text.to_owned()));
                }
                Some(path)
            }
            Place::Stream => {
                self.pass_on(pieces).await?;
                None
            }
        };
        pieces.confirm()?;
        Ok(file)
    }

    async fn pass_on(&mut self, pieces: &mut impl Pieces) -> Result<(), Error> {
        let Output::Stream(out) = &mut *self.output else { return Ok(()) };
        let failed = |error| Error::file("write", Path::new("standard output"), error);
        while let Some(chunk) = pieces.next().await? {
            block_in_place(|| out.write_all(&chunk)).map_err(failed)?;
            self.shown.more(chunk.len(), pieces.hops())?;
        }
        block_in_place(|| out.flush()).map_err(failed)
    }
}

/// What is here of it is not its beginning.
pub(super) fn is_other_beginning(error: &Error) -> bool {
    match error {
        Error::Session(error) => error.is_other_prefix(),
        Error::Parcel(error) => *error == ParcelError::Hash,
        _ => false,
    }
}

/// Progress, and the bound of what comes.
pub(super) struct Shown<'p> {
    pub progress: &'p Progress,
    pub total: Option<u64>,
    pub most: Option<Size>,
}

impl Shown<'_> {
    fn more(&mut self, bytes: usize, hops: usize) -> Result<(), Error> {
        let held = self.progress.held() + bytes as u64;
        self.progress.set(held, self.total);
        self.progress.set_hops(hops as u32);
        match self.most.filter(|most| held > most.get()) {
            Some(most) => Err(Error::TooLarge(most)),
            None => Ok(()),
        }
    }
}

/// Keeps the beginning of a part free for what comes last.
fn keep_free(part: &PartFile, ahead: u64) -> Result<(), Error> {
    if part.ranges().end() < ahead {
        let (file, path) = part.reader();
        sparse::lengthen(&file, ahead).map_err(|error| Error::file("write", &path, error))?;
        part.ranges().insert(0, ahead);
    }
    Ok(())
}

/// Moves the end of a stream of `length` bytes, which begins at `ahead` in a file, to the file's beginning. The places do not
/// overlap, and until the file is cut to its length nothing of the stream is lost.
fn put_header(file: &File, length: u64, ahead: u64) -> io::Result<()> {
    let header = ahead.min(length);
    let (from, mut at, mut piece) = (ahead + length - header, 0, vec![0; PIECE]);
    while at < header {
        let now = (header - at).min(PIECE as u64) as usize;
        file.read_exact_at(&mut piece[..now], from + at)?;
        file.write_all_at(&piece[..now], at)?;
        at += now as u64;
    }
    Ok(())
}

/// Hashes what is there of a file behind `ahead` bytes. It was verified when it came, and is compared again.
async fn hash_part(
    part: &PartFile,
    ahead: u64,
    digest: Option<WholeDigest>,
) -> Result<Beginning, Error> {
    let end = part.ranges().end().max(ahead);
    let (file, path) = part.reader();
    hash_file(file, path, ahead..end, digest).await
}

/// Hashes a range of a file.
async fn hash_file(
    file: Arc<File>,
    path: PathBuf,
    range: Range<u64>,
    digest: Option<WholeDigest>,
) -> Result<Beginning, Error> {
    let length = range.end - range.start;
    let hash = move || {
        let (mut beginning, mut piece) = (Beginning::new(digest), vec![0; PIECE]);
        while beginning.length() < length {
            let now = (length - beginning.length()).min(PIECE as u64) as usize;
            file.read_exact_at(&mut piece[..now], range.start + beginning.length())?;
            beginning.extend(&piece[..now]);
        }
        Ok(beginning)
    };
    let hashed = tokio::task::spawn_blocking(hash).await.map_err(io::Error::other);
    hashed.and_then(|hashed| hashed).map_err(|error: io::Error| Error::file("read", &path, error))
}

/// Makes the folders of a name below a directory. A link in place of a folder is refused: it could lead elsewhere.
fn make_folders(directory: &Path, folder: &str) -> Result<(), Error> {
    let mut at = directory.to_owned();
    for name in Path::new(folder) {
        at.push(name);
        let failed = |error| Error::file("make", &at, error);
        match fs::create_dir(&at) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&at).map_err(failed)?.is_dir() {
                    return Err(failed(io::Error::other("it is there, and is not a directory")));
                }
            }
            made => made.map_err(failed)?,
        }
    }
    Ok(())
}

/// Writes a piece of a stream behind the end of a part, without its blocks of zeros.
fn write(part: &PartFile, offset: u64, chunk: &[u8]) -> Result<(), Error> {
    for (piece, is_zero) in sparse::pieces(offset, chunk) {
        let (from, to) = (offset + piece.start as u64, offset + piece.end as u64);
        if is_zero {
            let (file, path) = part.reader();
            sparse::lengthen(&file, to).map_err(|error| Error::file("write", &path, error))?;
            part.ranges().insert(from, to);
        } else {
            part.writer().write(from, &chunk[piece])?;
        }
    }
    Ok(())
}

/// Writes a stream to a part, behind what is there; with the length of the whole.
async fn keep(
    part: &mut PartFile,
    identity: &Identity,
    mut offset: u64,
    pieces: &mut impl Pieces,
    shown: &mut Shown<'_>,
) -> Result<u64, Error> {
    let kept = async {
        loop {
            let Ok(next) = timeout(STALL, pieces.next()).await else {
                part.checkpoint_if_due(identity);
                continue;
            };
            let Some(chunk) = next? else { break };
            block_in_place(|| write(part, offset, &chunk))?;
            offset += chunk.len() as u64;
            shown.more(chunk.len(), pieces.hops())?;
            part.checkpoint_if_due(identity);
        }
        Ok(offset)
    };
    let kept: Result<u64, Error> = kept.await;
    if kept.is_err() {
        // What has come is there for the next session.
        part.checkpoint(identity).await?;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_stream_becomes_the_beginning_of_its_file() {
        let (header, body): (Vec<u8>, Vec<u8>) = ((0..100).collect(), (100..=255).collect());
        for length in [0, 1, 99, 100, 101, 200, 256] {
            let whole = [&header[..], &body].concat()[..length].to_vec();
            let (first, rest) = whole.split_at(length.min(100));
            let part = [&[0; 100][..], rest, first].concat();
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("part");
            fs::write(&path, part).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            put_header(&file, length as u64, 100).unwrap();
            file.set_len(length as u64).unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole, "{length} bytes");
        }
    }
}
