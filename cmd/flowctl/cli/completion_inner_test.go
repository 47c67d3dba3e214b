package cli

import "time"

// The tests are about the completed words. On a busy machine completion takes longer than a shell
// would wait.
func init() { completionTime = time.Minute }
