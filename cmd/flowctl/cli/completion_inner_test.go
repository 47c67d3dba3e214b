package cli

import "time"

// Tests are about what is completed: beside other processes that takes longer than a shell waits.
func init() { completionTime = time.Minute }
