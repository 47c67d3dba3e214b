//flow:package name=a
package package_twice

import "context"

//flow:step
func charge(ctx context.Context) error { return nil }
