// Package archive stores runs in a file: flowctl export writes it and flowctl import reads it.
//
// # Format
//
// A file consists of lines of JSON in UTF-8. Each line is an object with the field line, which
// contains its kind, and sum as the last field. Format 1 has the kinds
//
//	head    format, source (the kind of the store), exported (time); the first line
//	run     the record of a run, and in frames and streams the numbers of these that follow
//	frame   n, from 1, and body: a commit record of the log in its stored form
//	stream  name, first, last and closed: a stream of the chain, only in the first run of a chain
//	chunk   n, from first to last of the stream, and body in its stored form
//	blob    the name (field blob) and the size of data that the run keeps outside of the store; or
//	        missing, if the source does not have the blob
//	piece   n, from 1, and body: the next bytes of the blob
//	end     the numbers of runs, frames, streams, chunks, blobs and missing blobs; the last line
//
// Bodies are base64. A workflow ID or the name of a stream that is not valid UTF-8 is also base64,
// in the field base64 of an object. A reader ignores unknown fields, and refuses unknown lines and
// formats.
//
// The sum of a line is the first 8 bytes, as 16 hexadecimal digits, of the SHA-256 of the sum of
// the previous line (8 bytes, zero for the first line) followed by the line without its sum:
// without `,"sum":"…"` before the last brace, and without the newline. A file that was truncated,
// edited or recombined is refused, and the error contains the number of the line. The sum is not a
// signature: an edited file can have valid sums. Therefore an import validates the logs, see
// [store.Import.Check].
//
// Payloads are in the file as they are in the store: readable, unless a codec encrypts them. In
// that case reading the file requires the keys. The blobs of a run follow its streams, each once for a
// chain. The file can be imported into another blob store.
//
// # Reading order
//
// line.go contains the lines and their sums, writer.go and reader.go write and read them, export.go
// and import.go copy runs between stores and files, and store.go contains the read-only store of a
// file with the URL export:FILE.
package archive
