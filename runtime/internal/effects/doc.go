// Package effects derives the effects that the events of a run have on other runs and on readers,
// and defines the stored form of these effects. An effect depends only on its event and the log
// before it. So it is derived again, with the same result, after writes were lost. The worker
// decides when the effects are stored.
//
//   - sends.go: the outbox records that an event causes
//   - outboxmessage.go: the contents of a record, and whether it can be delivered
//   - publications.go: the stream operations that an event causes
//   - chunk.go: the chunks of users' streams
//
// A store keeps the effects as bytes. Workers create and deliver them. Clients and package fsck
// read them.
package effects
