// Package effects derives the effects of a run's log on others, and defines their stored form. It
// contains the part that depends on an event alone, which is derived again, with the same result,
// after writes were lost. The worker decides when the effects are stored.
//
//   - sends.go: the records for the outbox that an event causes
//   - outboxmessage.go: what a record holds, and whether it can be delivered
//   - publications.go: what an event lets others read, on which streams
//   - chunk.go: the chunks of the streams that users write
//
// A store keeps all of it as bytes. Workers make and deliver it, clients and package fsck read it.
package effects
