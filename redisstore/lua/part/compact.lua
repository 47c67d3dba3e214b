-- compact frees the memory that the server has preallocated for a log. A new stream takes 4 KiB,
-- and a copy takes only the bytes that it needs. Long logs are not compacted, because copying them
-- costs more than it saves.
local function compact(run, bytes)
  if bytes <= 65536 then
    redis.call('COPY', tag .. 'l:' .. run, tag .. 'y', 'REPLACE')
    redis.call('RENAME', tag .. 'y', tag .. 'l:' .. run)
  end
end
