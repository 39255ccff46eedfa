//! Data that means nothing: zeros that are written, and bytes that are read and forgotten.

use bytes::Bytes;
use noq_proto::{Connection, Dir, Event, StreamEvent, StreamId};

static ZEROS: [u8; 1 << 18] = [0; 1 << 18];

/// Writes at most `most` zeros, a quarter of a megabyte at most; how many, or none if the stream takes no more now.
pub fn write(connection: &mut Connection, stream: StreamId, most: u64) -> Option<u64> {
    let length = usize::try_from(most).map_or(ZEROS.len(), |most| most.min(ZEROS.len()));
    let mut chunks = [Bytes::from_static(&ZEROS[..length])];
    let written = connection.send_stream(stream).write_chunks(&mut &mut chunks[..]).ok()?;
    (written > 0).then_some(written as u64)
}

/// Reads what the event says has come on streams of the peer's, and names those that are there whole; how many bytes, each
/// counted once.
pub fn discard(connection: &mut Connection, event: &Event, mut whole: impl FnMut(StreamId)) -> u64 {
    let mut bytes = 0;
    let mut take = |connection: &mut Connection, stream| {
        let (count, ended) = read(connection, stream, |_| {});
        bytes += count;
        if ended {
            whole(stream);
        }
    };
    match event {
        Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
            while let Some(stream) = connection.streams().accept(Dir::Uni) {
                take(connection, stream);
            }
        }
        Event::Stream(StreamEvent::Readable { id }) => take(connection, *id),
        _ => {}
    }
    bytes
}

/// Reads all that has come on `stream`, in whatever order; how many bytes, and whether the stream has ended.
pub fn read(connection: &mut Connection, stream: StreamId, mut take: impl FnMut(&[u8])) -> (u64, bool) {
    read_as(connection, stream, false, &mut take)
}

/// The same in the order in which it was written.
pub fn read_in_order(connection: &mut Connection, stream: StreamId, mut take: impl FnMut(&[u8])) -> (u64, bool) {
    read_as(connection, stream, true, &mut take)
}

fn read_as(connection: &mut Connection, stream: StreamId, ordered: bool, take: &mut dyn FnMut(&[u8])) -> (u64, bool) {
    let mut receiving = connection.recv_stream(stream);
    let Ok(mut chunks) = receiving.read(ordered) else { return (0, true) };
    let mut bytes = 0;
    let ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => {
                bytes += chunk.bytes.len() as u64;
                take(&chunk.bytes);
            }
            Ok(None) => break true,
            Err(noq_proto::ReadError::Blocked) => break false,
            Err(noq_proto::ReadError::Reset(_)) => break true,
        }
    };
    // What flow control has to say to that leaves with the packets that follow.
    let _ = chunks.finalize();
    (bytes, ended)
}
