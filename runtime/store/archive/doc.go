// Package archive keeps runs in a file: what flowctl export writes and flowctl import reads.
//
// # Format
//
// A file is lines of JSON, in UTF-8, each an object with the field line, which says what it is, and as the last field sum.
// Format 1 has:
//
//	head    format, source (the kind of the store), exported (when); the first line
//	run     the record of a run, and in frames and streams how many of these follow
//	frame   n, from 1, and body: a commit record of the log, as it is stored
//	stream  name, first, last and closed: a stream of the chain; only the first run of a chain has them
//	chunk   n, from first to last of the stream, and body, as it is stored
//	end     runs, frames, streams and chunks: how many there were; the last line
//
// Bodies are base64. A workflow id or the name of a stream that is not valid UTF-8 is base64, too, as the field base64 of an
// object. A reader leaves fields aside that it does not know, and refuses lines and formats that it does not know.
//
// The sum of a line is the first 8 bytes, as 16 digits, of the SHA-256 of the sum of the line before (8 bytes, zeros for the
// first) and the line without its sum: without `,"sum":"…"` before the last brace, and without the newline. So a file that was
// cut off, edited or put together otherwise is refused, and the error names the line. It is no signature: whoever edits a
// file on purpose can compute the sums again. So whatever imports runs asks their logs, see [store.Import.Check].
//
// Payloads are in a file as they are in the store: readable, unless a codec keeps them secret. Then the file needs its
// keys, too.
//
// # Reading order
//
// line.go has the lines and their sums, writer.go and reader.go write and read them, export.go and import.go move runs
// between stores and files, and store.go is a store that shows a file and can be changed by nobody: of the
// URL export:FILE.
package archive
