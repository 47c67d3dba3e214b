package cli

import "time"

// init raises the time limit of completions, because the tests check the completed words. On a busy
// machine, completion takes longer than a shell would wait.
func init() { completionTime = time.Minute }
