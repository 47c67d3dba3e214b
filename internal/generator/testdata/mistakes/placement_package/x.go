//flow:package name=orders

package placement_package

//flow:package name=again
var x int
