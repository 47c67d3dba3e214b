package redisstore_test

import (
	"context"
	"net"
)

// dialing dials other addresses than those that the cluster reports.
func dialing(through map[string]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if proxy, ok := through[addr]; ok {
			addr = proxy
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}
