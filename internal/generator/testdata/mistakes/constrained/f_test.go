package constrained_test

// flow:step
func nearMissInTest() {}
