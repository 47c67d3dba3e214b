//flow:step
package placement_package
