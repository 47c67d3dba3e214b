// Package notify ends the blocking calls of a store when the changes occur for which they wait. All
// stores implement Wait, Watch and AwaitStream with it. It uses the clock of the store, but no
// database and no log.
//
// # Check, then wait
//
// A caller can query the state of a store, and it can be notified of changes. Neither is sufficient
// alone. A caller that only queries must poll. A caller that queries before it subscribes misses
// the changes in between. Therefore every blocking call takes these steps, in this order:
//
//  1. It subscribes. From now on it receives everything that is published.
//  2. It queries the state, which includes all changes before the subscription.
//  3. It waits for what was published since 1, and queries again.
//
// A store publishes a change after it has made the change. So either the query follows the change
// and returns it, or the subscription precedes the publication and receives it. A call may be
// notified of a change that its query has returned. It then makes another query, which is harmless.
// It never waits while there is something to return.
//
// A notification is a hint. All hints that a call has not taken cause one query. A subscription
// with too many hints drops them and queries all its topics. The log in the store is the only
// source of truth.
//
// # Parts
//
//   - A [Notifier] contains subscriptions by topic. The topic is the run for Watch, and the stream
//     for AwaitStream. [Subscription.Await] implements steps 2 and 3. All subscriptions of a topic
//     are notified.
//   - A [Source], such as Redis, delivers the messages of other processes. The notifier subscribes
//     to a topic at the source when the topic gets its first subscription, and unsubscribes some
//     time after the last subscription was closed. A source that may have lost messages calls
//     [Notifier.Notify] for the affected topics. In addition, waiting calls set a patience after
//     which they query without a notification.
//   - A poller that only observes states, such as the poller of the SQLite store, calls
//     [Notifier.Compare]. Subscriptions that have seen another state then query again.
//   - [Waiters] contains the idle workers of one partition. A wake for a route is given to the
//     worker that has waited longest, which must then claim. If no worker waits, the store keeps
//     the wake for the next one. A [Call] is one call of Wait, in all partitions of its sessions.
//
// A store in which each Wait takes wakes by a query, such as the Redis store, needs no Waiters. It
// publishes wakes under a topic, and the first query takes the wake.
//
// A notifier is created with a channel. After the channel was closed, every blocking call returns
// [store.ErrClosed].
//
// Read notifier.go, subscription.go, then waiters.go, call.go and unread.go.
package notify
