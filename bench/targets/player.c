/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A media player without the screen: decodes a clip again and again, in one
 * thread, and says what each frame took of the processor.
 *
 * Output, for each frame: two 64-bit words, CLOCK_MONOTONIC when it began and
 * the thread's own processor time that it took, both in ns; a line of text on
 * standard error once it runs. Time spent waiting does not count, as in
 * sptracer.txt 5.4. Ends when its input ends.
 */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void check(int failed, const char *what)
{
	if (failed) {
		fprintf(stderr, "player: %s\n", what);
		exit(1);
	}
}

static AVFormatContext *open_clip(const char *path, AVCodecContext **decoder)
{
	AVFormatContext *clip = NULL;
	const AVCodec *codec;

	check(avformat_open_input(&clip, path, NULL, NULL) < 0, "cannot open the clip");
	check(avformat_find_stream_info(clip, NULL) < 0, "the clip has no streams");
	check(av_find_best_stream(clip, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0) != 0, "its first stream is not video");
	*decoder = avcodec_alloc_context3(codec);
	avcodec_parameters_to_context(*decoder, clip->streams[0]->codecpar);
	(*decoder)->thread_count = 1;
	check(avcodec_open2(*decoder, codec, NULL) < 0, "no decoder");
	return clip;
}

static void rewind_clip(AVFormatContext *clip, AVCodecContext *decoder)
{
	check(av_seek_frame(clip, 0, 0, AVSEEK_FLAG_BACKWARD) < 0, "cannot rewind");
	avcodec_flush_buffers(decoder);
}

/* One packet in, its frame out: a clip without reordered frames has one of each. */
static void play(AVFormatContext *clip, AVCodecContext *decoder, AVPacket *packet, AVFrame *frame)
{
	while (av_read_frame(clip, packet) < 0)
		rewind_clip(clip, decoder);
	check(avcodec_send_packet(decoder, packet) < 0, "a packet is broken");
	av_packet_unref(packet);
	while (!avcodec_receive_frame(decoder, frame))
		av_frame_unref(frame);
}

int main(int count, char **words)
{
	AVCodecContext *decoder;
	AVFormatContext *clip;
	AVPacket *packet = av_packet_alloc();
	AVFrame *frame = av_frame_alloc();

	check(count != 2, "usage: player CLIP");
	clip = open_clip(words[1], &decoder);
	fprintf(stderr, "playing\n");
	for (;;) {
		int64_t told[2] = {now(CLOCK_MONOTONIC), now(CLOCK_THREAD_CPUTIME_ID)};

		play(clip, decoder, packet, frame);
		told[1] = now(CLOCK_THREAD_CPUTIME_ID) - told[1];
		if (fwrite(told, sizeof told, 1, stdout) != 1 || fflush(stdout))
			return 0;
	}
}
