// Package fleet starts and harms the processes of an experiment: workers, which
// are this program in another role, and the servers of their store.
//
// Whatever is started ends with the program, however that ends: see [Guard].
package fleet
