// Package notify connects the blocking calls of a store with the changes that they wait for: Wait,
// Watch and AwaitStream of all stores are built on it. It uses the clock that it is given, no
// database and no log.
//
// # Check, then wait
//
// A caller can query the state of a store, and it can be notified of changes. Neither is sufficient
// alone: a caller that only queries must poll, and a caller that queries first and subscribes then
// misses the changes in between. So every blocking call does the same, in this order:
//
//  1. It subscribes. From now on it receives everything that is published.
//  2. It queries the state, which includes all changes before the subscription.
//  3. It waits for what was published since 1, and queries again.
//
// A change is made first and published afterwards. Either the query follows the change and returns
// it, or the subscription preceded the publication and receives it. A call may receive a
// notification of a change that it has seen already, and then queries once more; it never waits
// although there is something that it would return.
//
// A notification is a hint. Hints that have not been taken yet count as one wake, and a
// subscription that holds too many of them drops them and queries everything. The log in the store
// remains the truth.
//
// # Parts
//
//   - A [Notifier] has subscriptions by topic: for Watch the run, for AwaitStream the stream.
//     [Subscription.Await] is steps 2 and 3. All subscriptions of a topic are notified.
//   - A [Source] delivers what other processes publish, as Redis does: the notifier subscribes to a
//     topic at the source with the topic's first subscription, and unsubscribes some time after the
//     last was closed. A source that can lose messages calls [Notifier.Notify] for the affected
//     topics, and waiting calls set a patience after which they query without a notification.
//   - A poller that only observes states, as the poller of SQLite does, calls [Notifier.Compare]:
//     subscriptions that have seen another state query again.
//   - [Waiters] are the idle workers of one partition. A wake for a route does not go to all of
//     them, but to the one that has waited longest, which must then claim. If none waits, the store
//     keeps the wake for the next. [Call] is one Wait, over the partitions of its sessions.
//
// A store on a server where each Wait takes wakes by a query, as the scripts of Redis do, needs no
// Waiters: it publishes wakes under a topic, and the first query gets the wake.
//
// A notifier and its waiters end with the channel with which they are created: from then on every
// blocking call returns [store.ErrClosed].
//
// Read notifier.go, subscription.go, then waiters.go, call.go and unread.go.
package notify
