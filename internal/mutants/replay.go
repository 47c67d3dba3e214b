package main

var replayMutants []Mutant
