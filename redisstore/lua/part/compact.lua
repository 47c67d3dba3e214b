-- compact gives back what the server has allocated ahead for a log: a new
-- stream takes 4 KiB, its copy what it needs. Long logs are left as they are:
-- copying them costs more than it saves.
local function compact(run, bytes)
  if bytes <= 65536 then
    redis.call('COPY', tag .. 'l:' .. run, tag .. 'y', 'REPLACE')
    redis.call('RENAME', tag .. 'y', tag .. 'l:' .. run)
  end
end
