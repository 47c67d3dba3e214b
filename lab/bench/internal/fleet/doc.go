// Package fleet starts and disturbs the processes of an experiment: workers, which run this program
// in another role, and the servers of their store.
//
// All started processes end when the program ends for any reason: see [Guard].
package fleet
