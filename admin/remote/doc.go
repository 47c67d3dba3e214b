// Package remote is a client of the HTTP API of package admin/api. It is an admin.Service, which answers what the
// service of the server answers, with the same problems:
//
//	service, err := remote.New("https://flows.example.com", remote.Config{Token: token})
//	run, err := service.Run(ctx, "id:order-4711")
//
// It follows runs through outages: from the last event that it has got.
package remote
