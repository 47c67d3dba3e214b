// Package protocol says, once, what every store does with runs: the guards and the
// transitions of each operation. The stores in memory and in SQLite call it, and so does
// the model of the random histories; the scripts of the store in Redis are named after
// its functions, and the histories compare them with it.
//
// It is pure. It has no clock, no lock, no goroutine and no database: an [Op] carries out
// an operation on a [Tx], which reads and writes what it is told to. All guards come
// first, then all writes; a guard that refuses has written nothing, and makes the error
// and its text. What changed for those who wait is in [Changes].
package protocol
