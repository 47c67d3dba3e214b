package storetest

import "time"

// SetPatience sets how long a blocked call may take to be told.
func SetPatience(d time.Duration) { patience = d }
