// Package notify connects the calls of a store that block with the changes that they wait
// for: Wait, Watch and AwaitStream of all stores are built on it. It knows no clock but the
// one that it is given, no database and no log.
//
// # Look, then wait
//
// A store can be asked how things stand, and it can tell that something has changed. Each
// alone is not enough: who only looks must poll, and who looks first and then asks to
// be told misses what happens in between. So every blocked call does the same, in this
// order:
//
//  1. It subscribes. From now on nothing that is published is lost to it.
//  2. It looks. What was there before the subscription is seen now.
//  3. It waits for what was published since 1, and looks again.
//
// A change is made first and published afterwards. Either the look comes after the
// change and sees it, or the subscription came before it was published and is told.
// A call may be told of what it has seen already, and then looks once more; it never
// waits beside something that it would have returned for.
//
// What is published is a hint. Hints that have not been taken yet are one wake, and a
// subscription that holds too many of them forgets them and looks everywhere. The log
// in the store remains the truth.
//
// # Parts
//
//   - A [Notifier] has subscriptions by topic: for Watch the run, for AwaitStream the stream.
//     [Subscription.Await] is steps 2 and 3. Everybody who is subscribed is told.
//   - A [Source] brings what others publish, as Redis does: the notifier asks it for a topic when the
//     first subscribes, and gives a topic up some time after the last has left. Where a
//     source can lose messages it calls [Notifier.Notify] for the topics concerned, and
//     those who wait pass a patience after which they look by themselves.
//   - A poller that only sees how things stand, as that of SQLite does, calls
//     [Notifier.Compare]: those who have seen something else look again.
//   - [Waiters] are the idle workers of one partition. A wake for a route is not for all of them:
//     it goes to the one that has waited for longest, which then must claim. If nobody is
//     there the store keeps the wake for the next that comes. [Call] is one Wait, over
//     the partitions of its sessions.
//
// A store on a server where each Wait takes wakes by looking, as the scripts of Redis do,
// needs no Waiters: it publishes wakes under a topic, and whose look comes first has it.
//
// A notifier and its waiters end with the channel that they are made with: from then on
// every blocked call returns [store.ErrClosed].
//
// Read notifier.go, subscription.go, then waiters.go, call.go and unread.go.
package notify
