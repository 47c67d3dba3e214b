package main

const usage = `usage: flowgen [-check] [-since REVISION] [-manifest] [-client DIR] [-json] [packages]
       flowgen vet [-advice] [-fix] [-diff] [-json] [packages]
       flowgen breaking [-against REVISION] [packages]
       flowgen manifest [-mermaid] [packages]
       flowgen replay -store URL [packages]
       flowgen types [-o FILE] [-check] [packages]
       flowgen completion bash|zsh|fish
       flowgen -version
Run flowgen -help for more.
`

const help = `flowgen writes the durable counterparts of annotated Go functions: one
flow_gen.go per package, to be committed.

usage: flowgen [-check] [-json] [-manifest] [-client DIR] [packages]
       flowgen vet [-advice] [-fix] [-diff] [-json] [packages]
       flowgen breaking [-against REVISION] [packages]
       flowgen manifest [-mermaid] [packages]
       flowgen replay -store URL [packages]
       flowgen types [-o FILE] [-check] [packages]
       flowgen completion bash|zsh|fish
       flowgen -version

breaking says which changes block runs in flight, replay asks the runs of a store, manifest
prints what they depend on, types what they take and return, for clients in TypeScript: flowgen
breaking -help, and so on.

Packages are named as for the go command; without any, it is the one in the
current directory.

  -check     write nothing; fail if a file is missing or stale (for CI)
  -since R   compare the names that logs hold with revision R of the git
             repository, not with the files on disk; with -check, fail if one of
             them changed, for runs under way have the old one
  -manifest  write flow.manifest.json, too: what runs depend on; where one lies, it is
             kept up to date without the flag
  -client D  write a client package to directory D, too: what starts runs of the package
             that is named and talks to them, without its steps; client= of //flow:package
             asks for one without the flag
  -json      print the report as one JSON object on standard output
  -version   print the version
  -help      print this

A call that has nothing to do is remembered with a hash of all that it has read, so that
the next one need not ask the go command: in flowgen below the directory of caches of the
user, or where FLOWGENCACHE says; FLOWGENCACHE=off remembers nothing.

Examples:

  go tool flowgen ./...                   every package below
  go tool flowgen                         this package
  go tool flowgen -check ./...            in CI
  go tool flowgen -check -since=origin/main ./...
                                          in CI of a change
  //go:generate go tool flowgen ./...     in one file at the root of the module, for
                                          those who run go generate

  go tool flowgen vet ./...               finds what workflow code must not do because
                                          it is replayed; flowgen vet -help says more

Directives go into the doc comment, without a space after the slashes:

  //flow:step         above func charge(ctx context.Context, …) (T, error),
                      or such a method: generates Charge for workflows to call
      as=Name  name=orders.charge  key=order.ID  retries=5
      backoff=constant(1s)|linear(1s,1m)|exponential(200ms,30s[,2])
      jitter=0.2  total=10m  timeout=10s  fatal=ErrX,*TypeY  nonidempotent
      queue=slow  wire=payer:customer  uses=GPU:2,PerHost(url.Host)
      of a graph, too:  after=sweep  each=plan  if=strict  onfail=skip
      of a machine, too:  catch=giveUp
  //flow:workflow     above func fulfil(ctx workflow.Context, …) (T, error):
                      generates Fulfil, which starts and awaits runs
      as=Name  name=orders.fulfil  queue=slow  timeout=24h  retention=168h
      children=100  wire=payer:customer  uses=PerCustomer(order.Customer)
      schedule="30 2 * * * Europe/Zurich"  priority=order.Rank  startwithin=30s
      fair=order.Tenant:order.Share  rerun=3,exponential(1m,1h)
      singleton=order.ID,queue  debounce=doc.ID,10s,2m  batch=100,5s
  //flow:dag          above a struct whose methods are steps; a parameter that is
                      named after a step takes its result
      the options of a workflow, and  onfail=finish  result=write
  //flow:machine      above a struct whose methods are steps, each of which returns
                      the next one
      the options of a workflow, and  start=begin  max=50
  //flow:error        above an error type or variable that callers match
      name=orders.DeclinedError
      or above the package clause, with errors of others:  pkg.ErrX,pkg.ErrY
  //flow:package      above the package clause
      name=prefix  register=Name  steps=Name  client=ordersclient

See docs/use/directives.md for all of it.

Exit codes: 0 all is well; 1 there are mistakes in the packages, or under -check
a file is not up to date or a stored name changed; 2 the command line is wrong.
`
