// Package orders says where its client lies on one machine.
//
//flow:package name=clientabsolute client=/srv/ordersclient
package orders

import "context"

//flow:step
func charge(ctx context.Context) error { return nil }
