// Package effects says what the log of a run means for others, and in which form that is
// stored. What depends on an event alone is here: it is derived again, and is the same, after
// writes were lost. When it is stored, and by whom, is a matter of the worker.
//
//   - sends.go: the records for the outbox that an event causes
//   - outboxmessage.go, check.go: what a record holds, and whether it can be delivered
//   - publications.go, answer.go: what an event lets others read, on which streams
//   - chunk.go: the chunks of the streams that users write
//
// A store keeps all of it as bytes. Workers make and deliver it, clients and package fsck
// read it.
package effects
