package otelflow

import "time"

// Quick returns a configuration with which the spans of a dead process are exported soon.
func (c Config) Quick() Config {
	c.renewal, c.stale = 200*time.Millisecond, 2*time.Second
	return c
}
