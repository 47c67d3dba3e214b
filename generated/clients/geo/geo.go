// Package geo has a type that is copied.
package geo

// Point is a place.
type Point struct{ X, Y Metres }

// Metres is a distance.
type Metres float64

// Far is a distance with a name.
const Far Metres = 2.5e3
