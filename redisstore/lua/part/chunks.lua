-- add_chunk appends chunk n to a stream that has n - 1 chunks. Entries after these were written by
-- a script that failed midway because a key was overwritten. They were never visible, because they
-- follow the last chunk of the recorded state.
local function add_chunk(chunks, n, body)
  local reply = redis.pcall('XADD', chunks, n .. '-0', 'f', body)
  if type(reply) == 'table' and reply.err and string.find(reply.err, '^ERR') then
    local before = redis.call('XRANGE', chunks, '-', (n - 1) .. '-0')
    redis.call('UNLINK', chunks)
    for _, chunk in ipairs(before) do
      redis.call('XADD', chunks, chunk[1], 'f', chunk[2][2])
    end
    reply = redis.pcall('XADD', chunks, n .. '-0', 'f', body)
  end
  if type(reply) == 'table' and reply.err then
    redis.call('XADD', chunks, n .. '-0', 'f', body) -- fails a second time and ends the script
  end
end

-- write_chunks applies count publications to the streams of a chain in order. From index first on,
-- ARGV contains for each the stream, the operations (d to drop it, b to append a body, c to close
-- it), the body, the number of chunks to keep or '0', the writer of the chunk, and its number. It
-- returns the resulting state of the streams and the last numbers of their writers, for publish. It
-- accesses every key that publish will write: if one was overwritten, the chunks written before
-- stay invisible, and the next attempt writes them again.
local function write_chunks(chain, first, count)
  local known = {}
  for i = first, first + 6 * count - 1, 6 do
    local name, what, body, keep, writer, nth = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 5]
    local chunks, writers, st = tag .. 'C:' .. chain .. ':' .. name, tag .. 'W:' .. chain .. ':' .. name, known[name]
    if not st then
      st = {nths = {}}
      st.from, st.last, st.longest, st.closed = stream_at(chain, name)
      known[name] = st
    end
    if not st.from or string.find(what, 'd') then
      redis.call('UNLINK', chunks, writers)
      st.from, st.last, st.longest, st.closed, st.nths = nil, 0, 0, '0', {}
    end
    if writer ~= '' and not st.nths[writer] then
      st.nths[writer] = tonumber(redis.call('HGET', writers, writer) or 0)
    end
    if string.find(what, 'b') and st.closed == '0' and (writer == '' or st.nths[writer] < tonumber(nth)) then
      st.from, st.last, st.longest = st.from or 1, st.last + 1, math.max(st.longest, #body)
      add_chunk(chunks, st.last, body)
      if writer ~= '' then
        st.nths[writer] = tonumber(nth)
      end
    end
    if st.from and keep > 0 and st.last - st.from >= keep then
      st.from = st.last - keep + 1
      redis.call('XTRIM', chunks, 'MINID', st.from .. '-0')
    end
    if string.find(what, 'c') and st.closed == '0' then
      st.from, st.closed = st.from or 1, '1'
      if (st.last - st.from + 1) * st.longest <= 65536 and redis.call('COPY', chunks, tag .. 'y', 'REPLACE') == 1 then
        redis.call('RENAME', tag .. 'y', chunks) -- frees preallocated memory, as in compact
      end
    end
  end
  return known
end
