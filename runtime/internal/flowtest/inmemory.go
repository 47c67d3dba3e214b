//go:build inmemory

package flowtest

var databases databaseStores
