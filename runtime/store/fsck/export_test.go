package fsck

// With returns options for a store whose events were not written by workers.
func (o Options) With(cfg Config) Options {
	o.check = &cfg
	return o
}
