package fsck

// With returns options for stores whose events are not those of workers.
func (o Options) With(cfg Config) Options {
	o.check = &cfg
	return o
}
