package main

var workerMutants []Mutant
